"""Machines that run code: this one, with its facts and settings, and an emulated one."""
