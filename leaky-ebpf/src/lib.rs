//! The kernel side of leaky. It has no arithmetic of its own: what a packet is, when it may leave
//! and what is counted come from leaky-core; here is only what needs the kernel.
//!
//! The way of a packet: [`egress`] reads it ([`skb`], [`frame`]), finds its class ([`policy`],
//! [`tables`]) and its bucket ([`keys`]), lets leaky-core decide on it ([`cell`]), then that of the link
//! ([`link`]), then stamps or drops and counts it ([`count`]).
#![no_std]
#![feature(asm_experimental_arch, core_intrinsics)]
#![allow(internal_features)]

pub mod cell;
pub mod count;
pub mod egress;
pub mod frame;
pub mod keys;
pub mod link;
pub mod opaque;
pub mod policy;
pub mod scratch;
pub mod skb;
pub mod tables;
