"""Put predictions and measurements together, and judge variants by them."""
