"""Makes docs/polling.png: pulls and delivered fidelity of the choosers on four kinds of trace."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tolerant.experiments.workloads.stock_prices import outcome, polled_trace, portfolios
from tolerant.polling import simulate

METHODS = {
    "max": ("max", {}),
    "positive-negative": ("positive-negative", {}),
    "per-item": ("per-item", {}),
    "risk": ("risk", {}),
    "risk, forecast": ("risk", {"forecast": True}),
    "ideal push": ("ideal-push", {}),
}


def main() -> None:
    """Draw the four traces side by side."""
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.4), sharey=True)
    for panel, kind in zip(panels, ("walk", "momentum", "stock", "reverting"), strict=True):
        for method, (chooser, options) in METHODS.items():
            found = [
                outcome(simulate(polled_trace(kind, seed=s), portfolios(500, 2400, 0.98, seed=s), chooser, **options))
                for s in range(3)
            ]
            pulls, fidelity = (np.mean([each[name] for each in found]) for name in ("pulls", "fidelity"))
            panel.plot(fidelity, pulls, "o", label=method)
        panel.axvline(0.98, color="grey", linestyle="--", linewidth=0.8)
        panel.set(title=kind, xlabel="mean fidelity", xlim=(0.965, 1.003), ylim=(0, 650))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("pulls per item in 3000 ticks")
    panels[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "polling.png", dpi=110)


if __name__ == "__main__":
    main()
