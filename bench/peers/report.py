"""Lines of both sides' results -> a table and one JSON file: python3 report.py LINES JSON."""

import json
import statistics
import sys


def median_of(results, key):
    return statistics.median(key(result) for result in results)


def side(results):
    """Medians over the rounds of one side of one cell; memory is the worst rank's, beyond the libraries' own."""
    if not results:
        return None
    if results[0]["side"] == "trireme":
        memory = lambda r: max(r["beyond_base_mb"])
    else:
        memory = lambda r: max(peak - base for peak, base in zip(r["peak_mb"], r["base_mb"]))
    found = {"tokens_per_s": median_of(results, lambda r: r["tokens_per_s"]),
             "cpu_ms": median_of(results, lambda r: r["cpu_ms"]),
             "memory_mb": median_of(results, memory), "rounds": len(results)}
    if "gemm_limit_tokens_per_s" in results[0]:
        found["gemm_limit_tokens_per_s"] = median_of(results, lambda r: r["gemm_limit_tokens_per_s"])
    return found


def number(value, form):
    return "-" if value is None else format(value, form)


def main(lines, out):
    cells = {}
    for line in map(json.loads, open(lines)):
        cell = cells.setdefault((line["size"], line["mode"]), {"bar": line["bar"], "pytorch": [], "trireme": []})
        cell[line["result"]["side"]].append(line["result"])
    print("tokens/s, medians; cpu: CPU time of theirs / ours; limit: what ATen's matrix products alone would allow, / theirs;\n"
          "memory: MB of a rank at its peak beyond the libraries' own, ours / theirs (bar 60%)")
    print(f"{'':16} {'PyTorch':>9} {'Trireme':>9} {'ratio':>6} {'bar':>5} {'cpu':>6} {'limit':>6}   {'MB':>6} {'MB':>6} {'memory':>7}")
    report = []
    for (size, mode), cell in cells.items():
        theirs, ours = side(cell["pytorch"]), side(cell["trireme"])
        row = {"size": size, "mode": mode, "bar": cell["bar"], "pytorch": theirs, "trireme": ours}
        if theirs and ours:
            row["ratio"] = ours["tokens_per_s"] / theirs["tokens_per_s"]
            row["cpu_ratio"] = theirs["cpu_ms"] / ours["cpu_ms"]
            row["limit_ratio"] = ours["gemm_limit_tokens_per_s"] / theirs["tokens_per_s"]
            row["memory_ratio"] = ours["memory_mb"] / theirs["memory_mb"]
        of = lambda one, key: one[key] if one else None
        print(f"{size + ' ' + mode:16} {number(of(theirs, 'tokens_per_s'), '9.0f'):>9} "
              f"{number(of(ours, 'tokens_per_s'), '9.0f'):>9} {number(row.get('ratio'), '6.2f'):>6} "
              f"{number(cell['bar'], '5.2f'):>5} {number(row.get('cpu_ratio'), '6.2f'):>6} "
              f"{number(row.get('limit_ratio'), '6.2f'):>6}   {number(of(theirs, 'memory_mb'), '6.0f'):>6} "
              f"{number(of(ours, 'memory_mb'), '6.0f'):>6} {number(row.get('memory_ratio'), '7.0%'):>7}")
        report.append(row)
    with open(out, "w") as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
