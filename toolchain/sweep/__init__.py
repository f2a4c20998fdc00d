"""`make sweep`: proposes options of the training, has the stack train with them, gives up the worse ones."""
