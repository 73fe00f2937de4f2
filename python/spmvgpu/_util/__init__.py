"""What every folder uses: checks of arguments, value types, steps, and text to show."""
