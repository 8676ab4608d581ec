//! Programs for measuring what a packet costs: nothing, and the accept path over many flows.
#![no_std]
#![no_main]

use aya_ebpf::bindings::TC_ACT_UNSPEC;
use aya_ebpf::macros::{classifier, map};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::TcContext;
use leaky_ebpf::egress::{Hold, egress};

/// How many flows the test run cycles through, and the one that is next.
#[map]
static FLOW_CYCLE: PerCpuArray<[u32; 2]> = PerCpuArray::with_max_entries(1, 0);

/// Offset of the UDP source port behind Ethernet and IPv4 without options.
const SOURCE_PORT: usize = 34;

/// The cost of the measuring loop and of entering a program.
#[classifier]
pub fn empty(_ctx: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// Gives each packet the next source port.
#[inline(always)]
fn next_flow(ctx: &TcContext) {
    let Some(cycle) = FLOW_CYCLE.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: a per-CPU value, and a test run is not interrupted by another on its CPU.
    let [flows, next] = unsafe { &mut *cycle };
    *next = if *next + 1 >= *flows { 0 } else { *next + 1 };
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + SOURCE_PORT + 2 <= end {
        // SAFETY: in the packet by the comparison.
        unsafe { ((data + SOURCE_PORT) as *mut u16).write_unaligned(*next as u16) };
    }
}

/// What cycling through flows costs by itself.
#[classifier]
pub fn cycle(ctx: TcContext) -> i32 {
    next_flow(&ctx);
    TC_ACT_UNSPEC
}

/// The whole accept path, each packet of the next flow.
#[classifier]
pub fn accept(ctx: TcContext) -> i32 {
    next_flow(&ctx);
    egress(&ctx, Hold::DepartureTime)
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
