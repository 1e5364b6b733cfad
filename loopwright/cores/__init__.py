"""The cores: what models/<microarch>/core.toml says of each."""
