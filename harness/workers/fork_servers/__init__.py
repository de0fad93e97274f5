"""Fork servers as the parent process holds them: it starts them, asks them for children and stops them."""
