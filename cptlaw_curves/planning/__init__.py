"""Plans of learning-rate schedules."""
