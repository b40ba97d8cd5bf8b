"""Graph networks and layers of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from real_models.zoo.model import Built, Model

NODES, EDGES = 20, 60


def edges() -> Tensor:
    """Random edges between the nodes: int64 [2, edges]."""
    return torch.randint(0, NODES, (2, EDGES))


def graph() -> tuple[Tensor, Tensor]:
    return torch.randn(NODES, 16), edges()


def _network(name: str, cls: str, kind: str, **settings: Any) -> Model:
    """One of PyG's ready networks: layers, norms and dropout."""

    def build() -> Built:
        import torch_geometric.nn as pyg

        network = getattr(pyg.models, cls)(16, 32, num_layers=2, out_channels=8, **settings)
        return network, graph(), {}

    gate = name == "gcn"
    return Model(f"pyg/{name}", "torch_geometric", kind, build, gate=gate)


def _layer(name: str, kind: str, make: Callable[[Any], nn.Module], *more: Any) -> Model:
    """One layer of PyG between two Linears of ours."""

    def build() -> Built:
        import torch_geometric.nn as pyg

        given = [item() if callable(item) else item for item in more]
        return make(pyg), (*graph(), *given), {}

    return Model(f"pyg/{name}", "torch_geometric", kind, build)


def _pooled(pyg: Any) -> nn.Module:
    return pyg.Sequential(
        "x, edge_index, batch",
        [
            (pyg.GraphConv(16, 16), "x, edge_index -> x"),
            nn.ReLU(),
            (pyg.global_mean_pool, "x, batch -> x"),
            nn.Linear(16, 4),
        ],
    )


def _top_k(pyg: Any) -> nn.Module:
    return pyg.Sequential(
        "x, edge_index",
        [
            (pyg.GCNConv(16, 16), "x, edge_index -> x"),
            (pyg.TopKPooling(16, ratio=0.5), "x, edge_index -> x, edge_index, _, _, _, _"),
            (pyg.GCNConv(16, 4), "x, edge_index -> x"),
        ],
    )


def _batch() -> Tensor:
    return torch.arange(NODES) // (NODES // 2)


MODELS: tuple[Model, ...] = (
    _network("gcn", "GCN", "degrees from the edges"),
    _network("gat", "GAT", "attention over neighbours", heads=2),
    _network("gat-v2", "GAT", "attention over neighbours", heads=2, v2=True),
    _network("sage", "GraphSAGE", "means of neighbours"),
    _network("sage-max", "GraphSAGE", "maxima of neighbours", aggr="max"),
    _network("gin", "GIN", "sums, batch norm", norm="batch_norm"),
    _network("edge-cnn", "EdgeCNN", "pairs of nodes"),
    _layer("transformer", "attention over neighbours",
           lambda pyg: pyg.TransformerConv(16, 8, heads=2)),
    _layer("gatv2-edges", "edge features",
           lambda pyg: pyg.GATv2Conv(16, 8, heads=2, edge_dim=4), lambda: torch.randn(EDGES, 4)),
    _layer("gine", "edge features",
           lambda pyg: pyg.GINEConv(nn.Linear(16, 8), edge_dim=4), lambda: torch.randn(EDGES, 4)),
    _layer("cheb", "Chebyshev polynomials", lambda pyg: pyg.ChebConv(16, 8, K=3)),
    _layer("pooled", "one vector for each graph", _pooled, _batch),
    _layer("top-k", "drops nodes by their score", _top_k),
)  # fmt: skip
