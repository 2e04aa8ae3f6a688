//! The admin listener: health, readiness and metrics.
