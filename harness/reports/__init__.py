"""What people see of a campaign: progress and findings on a terminal."""
