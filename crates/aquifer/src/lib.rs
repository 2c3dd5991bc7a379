//! Memory that reaches below RAM: the public Rust API
