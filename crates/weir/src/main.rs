//! weir's command line.
fn main() {}
