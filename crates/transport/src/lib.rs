//! Shards, sockets, buffers, pipes and the worker pool of the Longshore file server.
