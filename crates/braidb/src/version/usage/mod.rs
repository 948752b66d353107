//! What readers leave behind at the slices that they read: what they paid in vain, and how often they came.

pub mod heat;
pub mod rent;
