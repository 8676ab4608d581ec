//! Values that LLVM must not look through.

use core::arch::asm;

/// The same value in one register.
///
/// Before an index is compared with a length: LLVM otherwise computes the offset first and compares a
/// copy of the index, which proves nothing to the kernel's verifier.
#[inline(always)]
pub fn opaque(mut value: usize) -> usize {
    // SAFETY: assigns a register to itself.
    unsafe { asm!("{0} = {0}", inout(reg) value) };
    value
}
