//! What readers note at the slices that they read: rent (what they paid in vain) and heat (how often they
//! came).

pub mod heat;
pub mod rent;
