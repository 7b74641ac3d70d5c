"""Model predictive path tracking: plan, quadratic programme and solver."""
