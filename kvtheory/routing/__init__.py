"""Routing policies, one a file behind `kvtheory.router.RoutingPolicy`."""
