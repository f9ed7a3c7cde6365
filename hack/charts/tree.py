"""Where the charts are."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CHARTS = REPOSITORY / "charts"


def charts() -> list[Path]:
    """The folders of all charts."""
    return [file.parent for file in sorted(CHARTS.glob("*/Chart.yaml"))]
