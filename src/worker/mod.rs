//! Step 3 of the flow: take ids, run each job once, record its end, rescue what was lost.
