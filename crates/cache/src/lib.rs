//! RAM object cache: size-class slabs and eviction policies
