"""Prometheus' client reads of our pages what our own strict reader reads.

Usage: check_metrics.py PORT
"""

import os
import sys

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
import metrics

PAGES = 20


def sample_name(sample):
    labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items())
    return sample.name + (f"{{{labels}}}" if labels else "")


def check(page):
    ours = metrics.parse(page)
    families = list(text_string_to_metric_families(page))
    theirs = {sample_name(s): s.value for family in families for s in family.samples}
    assert theirs == ours, set(theirs.items()) ^ set(ours.items())
    for family in families:
        assert family.documentation and family.type in ("gauge", "counter", "histogram"), family
    kinds = {family.name: family.type for family in families}
    assert kinds["penstock_tokens"] == "counter", kinds  # it leaves _total out
    assert kinds["penstock_step_duration_seconds"] == "histogram", kinds
    return ours


def main():
    port, steps, samples = int(sys.argv[1]), set(), 0
    while len(steps) < PAGES:
        code, headers, page = metrics.fetch(port)
        assert code == 200 and headers["Content-Type"] == metrics.CONTENT_TYPE
        values = check(page)
        samples = len(values)
        steps.add(values.get("penstock_step"))
    print(f"the client reads all {samples} samples of {PAGES} pages as we do")


main()
