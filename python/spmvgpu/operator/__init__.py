"""The operator on one device: how it is made, what it is made of, its products and its algebra."""
