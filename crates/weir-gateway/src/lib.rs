//! The data path: from a listening socket to a reply or an upstream and back.
