"""What a product will take on a device: features of matrices, profiles of devices, models between them."""
