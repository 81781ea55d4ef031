"""Quadratic forms in the Laplace kernel, one sweep over sorted points each."""

from calibrant.kernels.jit import kernel


@kernel()
def laplace_norms(p, w, wy, decay, fresh, of_hits, of_misses, out, start, stop):
    """out[r] = gᵀKg, g = of_hits[r]·wy[r](1 − p) − of_misses[r]·(w − wy[r])p, K_ab = exp(−|p_a − p_b|/scale).

    h_k = g_k + decay_k h_{k−1} is what has gathered up to k, fresh_k = 1 − decay²_{k+1} (1 at the last point):
    gᵀKg = Σ_k fresh_k h_k².
    """
    for r in range(start, stop):
        hit, miss = of_hits[r], of_misses[r]
        gathered = 0.0
        total = 0.0
        for k in range(p.size):
            gap = hit * (wy[r, k] * (1.0 - p[k])) - miss * ((w[k] - wy[r, k]) * p[k])
            gathered = gap + decay[k] * gathered
            total += fresh[k] * gathered * gathered
        out[r] = total
