//! Endpoints: device, transport, session and pipelines joined
