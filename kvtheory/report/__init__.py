"""What people look at: text tables, figures and pages."""
