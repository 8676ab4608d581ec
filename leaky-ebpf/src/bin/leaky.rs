//! The programs that `leaky` loads.
#![no_std]
#![no_main]

use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use leaky_ebpf::egress::{Hold, egress};

/// For fq as the hold: stamps departure times (kernel 5.18 and later).
#[classifier]
pub fn leaky_fq(ctx: TcContext) -> i32 {
    egress(&ctx, Hold::DepartureTime)
}

/// For htb as the hold: puts each packet into its key's queue.
#[classifier]
pub fn leaky_htb(ctx: TcContext) -> i32 {
    egress(&ctx, Hold::Queue)
}

/// bpf_skb_set_tstamp and bpf_skb_pull_data are only for programs under a GPL-compatible licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
