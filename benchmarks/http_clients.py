"""Others' programs ask a served federation: schemathesis by its description, and KServe's and MLflow's own clients.

    .venv/bin/python benchmarks/http_clients.py --tools FOLDER...

Every FOLDER is an environment made by `python -m venv`, with any of schemathesis, kserve and mlflow in it. Ends with 1
if schemathesis finds something, or if a client does not get the scores that a plain request gets.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench_scoring import ServedTrial, served
from mpfedxgb.party.roster import ACTIVE

EXAMPLES = 50
"""Requests of each kind that schemathesis makes for every route."""

ROWS = 5

KSERVE = """
import asyncio, json, sys
from kserve import InferRequest, InferInput, RESTConfig
from kserve.inference_client import InferenceRESTClient

host, rows = sys.argv[1], json.loads(sys.argv[2])

async def main():
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
    inputs = []
    for name in rows[0]:
        kind = "BYTES" if isinstance(rows[0][name], str) else "FP64"
        inputs.append(InferInput(name, [len(rows)], kind, [row[name] for row in rows]))
    assert await client.is_server_ready(f"http://{host}")
    request = InferRequest(model_name="trial", infer_inputs=inputs)
    answer = await client.infer(f"http://{host}", request, model_name="trial")
    found = {output.name: output.data for output in answer.outputs}
    print(json.dumps(found["probability"]))

asyncio.run(main())
"""

MLFLOW = """
import json, sys
import pandas as pd
from mlflow.pyfunc.scoring_server.client import ScoringServerClient

client = ScoringServerClient(*sys.argv[1].split(":"))
client.ping()
answer = client.invoke(pd.DataFrame(json.loads(sys.argv[2])))
print(json.dumps([row["probability"] for row in json.loads(answer.to_json())["predictions"]]))
"""


def by_schemathesis(made: ServedTrial, program: Path) -> bool:
    """Run schemathesis on the description, with all its checks; return whether it finds nothing."""
    url = f"http://{made.host(ACTIVE)}/openapi.json"
    options = ["--max-examples", str(EXAMPLES), "--seed", "1", "--generation-database", "none", "--no-color"]
    config = str(Path(__file__).with_name("schemathesis.toml"))
    command = [str(program), "--config-file", config, "run", url, *options]
    done = subprocess.run(command, cwd=made.trial.folder, check=False)  # noqa: S603 # named on the command line
    return done.returncode == 0


def by_client(made: ServedTrial, python: Path, program: str) -> bool:
    """Have a client ask for some rows; return whether it gets the scores that a plain request gets."""
    rows = made.rows()[:ROWS]
    expected = [row["probability"] for row in made.score(rows)]
    command = [str(python), "-W", "ignore", "-c", program, made.host(ACTIVE), json.dumps(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 # named on the command line
    if done.returncode:
        print(done.stderr[-2000:])
        return False
    return bool(json.loads(done.stdout.strip().splitlines()[-1]) == expected)


def main() -> int:
    """Ask with everything that is installed, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, nargs="+", required=True, help="folders of environments with the tools")
    args = parser.parse_args()
    found: dict[str, bool] = {}
    with served("mesh", 0.0, trees=5, depth=3, people=500) as made:
        for folder in (tool.absolute() for tool in args.tools):  # schemathesis runs in another folder
            if (folder / "bin" / "schemathesis").exists():
                found["schemathesis"] = by_schemathesis(made, folder / "bin" / "schemathesis")
            for name, program in (("kserve", KSERVE), ("mlflow", MLFLOW)):
                if next(folder.glob(f"lib/python*/site-packages/{name}"), None):
                    found[name] = by_client(made, folder / "bin" / "python", program)
    for name, is_good in found.items():
        print(f"{name}: {'ok' if is_good else 'FAILED'}")
    return 0 if found and all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
