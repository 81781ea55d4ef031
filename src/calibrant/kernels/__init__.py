"""The hot loops and their typed doors. Nothing outside this folder knows what runs behind them."""
