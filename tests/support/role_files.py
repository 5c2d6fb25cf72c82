"""Settings files of a small federation, with every key that a role may have, and ways to write them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Content = dict[str, dict[str, Any]]

ROLES = ("coordinator", "bank", "telecom")

_COMMON: Content = {
    "federation": {"name": "trial", "participants": ["bank", "telecom"], "coordinator": "coordinator"},
    "tls": {"ca": "ca.crt", "certificate": "own.crt", "key": "own.key", "passphrase_env": "OWN_PASSPHRASE"},
    "session": {"name": "spring-2025"},
    "training": {
        "objective": "binary:logistic",
        "num_class": 2,
        "n_estimators": 3,
        "num_parallel_tree": 1,
        "max_depth": 2,
        "max_bin": 8,
        "learning_rate": 0.5,
        "reg_lambda": 1.5,
        "reg_alpha": 0.0,
        "max_delta_step": 0.0,
        "gamma": 0.25,
        "min_child_weight": 0.5,
        "subsample": 0.9,
        "colsample_bytree": 0.8,
        "colsample_bylevel": 0.75,
        "colsample_bynode": 1.0,
        "weighted": True,
        "constrained": False,
        "first_layer_mask": True,
        "may_stop_early": True,
        "security": "strict",
        "binning": "quantile",
        "leaf_epsilon": 1e-6,
        "huber_slope": 1.0,
        "tweedie_variance_power": 1.5,
        "quantile_alpha": 0.5,
        "lambdarank_pair_method": "topk",
        "lambdarank_normalization": True,
        "lambdarank_score_normalization": True,
        "ndcg_exp_gain": True,
        "aft_loss_distribution": "normal",
        "aft_loss_distribution_scale": 1.0,
        "booster": "dart",
        "rate_drop": 0.2,
        "skip_drop": 0.1,
        "one_drop": True,
        "sample_type": "weighted",
        "normalize_type": "forest",
        "xgboost_rules": "3.4",
    },
    "limits": {"n_jobs": 2, "max_memory": "1.5 GB", "spool": "spool"},
    "log": {"level": "info", "file": "own.log", "json": True},
}

_WAITING: dict[str, Any] = {
    "deadline": 30.0,
    "connect_timeout": 20,
    "reconnect": True,
    "max_frame_mb": 64,
    "transport": "tls",
    "topology": "star",
}

_PLANNED: Content = {"coordinator": {}, "bank": {"link": "35/50"}, "telecom": {}}

_NETWORK: Content = {
    "coordinator": {"listen": "0.0.0.0:7701"},
    "bank": {"listen": "127.0.0.1:7702", "coordinator": "deals.example.org:7701"},
    "telecom": {"coordinator": "deals.example.org:7701", "active": "[2001:db8::7]:7702"},
}

_DATA: dict[str, Any] = {
    "train": "train.csv",
    "evaluate": "evaluate.csv",
    "predict": "score.parquet",
    "id": "customer",
    "align": True,
    "features": ["age", "income", "city"],
    "categorical": ["city"],
    "numeric": ["income"],
    "monotone": {"income": 0},
    "delimiter": ";",
    "encoding": "cp1252",
    "decimal": ",",
    "missing": ["n.a.", "-"],
}

_ALIGN: dict[str, Any] = {
    "ids": "integer",
    "case": "ignore",
    "spaces": "remove",
    "unicode": "NFKC",
    "min_rows": 100,
    "max_rows": 900,
    "n_jobs": 2,
}

_ACCEPT: dict[str, Any] = {
    "security": ["strict"],
    "max_depth": 5,
    "max_trees": 60,
    "max_bin": 32,
    "min_rows": 500,
    "max_rows": 90_000,
    "trainings_per_day": 7,
}

_LABEL: dict[str, Any] = {
    "column": "defaulted",
    "weight": "weight",
    "eval_metric": ["logloss", "auc"],
    "early_stopping_rounds": 5,
    "base_score": 0.5,
    "scale_pos_weight": 2.0,
    "base_margin": "margin",
}


_SERVE: dict[str, Any] = {
    "max_batch": 500,
    "max_wait_ms": 5.0,
    "max_waiting": 9000,
    "max_body_mb": 2,
    "timeout": 12.5,
}


def full(role: str) -> Content:
    """Return everything that a role's file may hold; [role], without which nothing works, comes last."""
    content = copy.deepcopy(_COMMON)
    content["network"] = {**_NETWORK[role], **_WAITING, **_PLANNED[role]}
    content["serve"] = {"token_file": "http.token"}
    if role != "coordinator":
        content["data"] = copy.deepcopy(_DATA)
        content["align"] = copy.deepcopy(_ALIGN)
    if role == "bank":
        content["data"]["predictions"] = "predictions.csv"
        content["label"] = copy.deepcopy(_LABEL)
        content["serve"].update(_SERVE)
    else:
        content["accept"] = copy.deepcopy(_ACCEPT)
    if role == "telecom":
        content["scoring"] = {"max_rows_per_day": 5000}
    content["workers"] = {
        "scheduler": "tls://dask.internal:8786",
        "ca": "dask/ca.crt",
        "certificate": "dask/client.crt",
        "key": "dask/client.key",
    }
    model = {} if role == "coordinator" else {"model": "own.mpfedxgb.json"}
    return content | {"role": {"state": "state", **model, "name": role}}


def least(role: str) -> Content:
    """Return what a role's file has to hold."""
    everything = full(role)
    content: Content = {
        "federation": {"name": "trial", "participants": ["bank", "telecom"]},
        "network": dict(_NETWORK[role]),
        "tls": {"ca": "ca.crt", "certificate": "own.crt", "key": "own.key"},
        "role": {"name": role},
    }
    if "data" in everything:
        content["data"] = {"id": "customer"}
    if "label" in everything:
        content["label"] = {"column": "defaulted"}
    return content


def to_toml(content: dict[str, Any]) -> str:
    """Return tables as TOML text; a `Raw` value goes out as it is."""
    lines: list[str] = []
    for table, keys in content.items():
        if isinstance(keys, dict):
            lines.append(f"[{table}]")
            lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
        else:
            lines.insert(0, f"{table} = {_value(keys)}")
    return "\n".join(lines) + "\n"


class Raw(str):
    """A value as it is written in the file."""


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(inner)}' for key, inner in value.items())} }}"
    return str(value) if isinstance(value, Raw) else json.dumps(value)


def write(folder: Path, content: dict[str, Any], name: str = "role.toml") -> Path:
    """Write a settings file and return its path."""
    path = folder / name
    path.write_text(to_toml(content), encoding="utf-8")
    return path
