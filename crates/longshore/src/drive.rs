//! The protocol servers know no transport and the transport knows no protocol: here a connection of either server becomes a
//! machine the transport drives. Both have the same methods, since both are driven the same way.

/// Makes the tuple struct `$machine` around a connection a [`transport::Machine`], whose protocol is called `$protocol`.
macro_rules! drive {
    ($machine:ident, $protocol:literal) => {
        impl transport::Machine for $machine {
            fn protocol(&self) -> &'static str {
                $protocol
            }

            fn arrived(&mut self, now_ns: u64) {
                self.0.arrived(now_ns);
            }

            fn sent(&mut self, now_ns: u64) {
                self.0.sent(now_ns);
            }

            fn framing(&self, prefix: &[u8]) -> transport::Framing {
                match self.0.framing(prefix) {
                    Ok(Some((len_bytes, payload_at))) => transport::Framing::Known { len_bytes, payload_at },
                    Ok(None) => transport::Framing::Unknown,
                    Err(why) => transport::Framing::Refuse(why),
                }
            }

            fn receive(&mut self, frame: vfs::Frame, more_behind: bool) {
                self.0.receive(frame, more_behind);
            }

            fn poll(&mut self, cx: &mut std::task::Context<'_>) {
                self.0.poll(cx);
            }

            fn next_reply(&mut self) -> Option<vfs::Reply> {
                self.0.next_reply()
            }

            fn ready(&self) -> bool {
                self.0.is_ready()
            }

            fn stalled(&self) -> bool {
                self.0.is_stalled()
            }

            fn busy(&self) -> bool {
                self.0.is_busy()
            }

            fn finished(&self) -> bool {
                self.0.finished().is_some()
            }

            fn established(&self) -> bool {
                self.0.is_established()
            }

            fn closed(&mut self, why: &str) {
                self.0.closed(why);
            }

            fn lingers(&self) -> bool {
                self.0.is_lingering()
            }
        }
    };
}

pub(crate) use drive;
