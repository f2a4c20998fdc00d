"""`make sweep`: proposes training options, lets the stack train with them, and stops the worse trials."""
