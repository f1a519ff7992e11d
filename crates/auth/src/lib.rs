//! Users, NTLMv2 verification and id mapping. Pure apart from the user database file.
