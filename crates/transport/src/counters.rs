//! What the data path counts: one set for each shard, so that counting is an uncontended add.

use vfs::metrics::Histogram;

vfs::counters! {
    Counters, Totals, "",
    {
        /// Connections accepted.
        accepted,
        /// Connections ended.
        ended,
        /// Calls that received bytes.
        recv_calls,
        /// Bytes received.
        recv_bytes,
        /// Complete frames taken in.
        frames,
        /// Calls that sent bytes.
        send_calls,
        /// Bytes sent.
        sent_bytes,
        /// Replies that left whole.
        replies,
        /// Replies whose body was file pages moved by `splice`.
        page_replies,
        /// Times a connection began to let requests gather.
        gather_begun,
        /// Times what was waited for did not come.
        gather_in_vain,
        /// Wake-ups of connections that let requests gather.
        gather_wakeups,
        /// Requests they brought.
        gather_frames,
        /// Large frames that were waited for and came whole.
        awaited,
        /// Large frames that were waited for and did not come in time.
        awaited_in_vain,
    }
    with {
        /// Complete frames of each call that received bytes.
        frames_per_recv: Histogram,
        /// Replies that each call that sent bytes has finished.
        replies_per_send: Histogram,
    }
}
