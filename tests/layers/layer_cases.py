"""Every public layer with arguments to make it with, and the shape of its inputs."""

import harness

import tfvn

# Per linear op: arguments, the shape of the inputs, and what else there is to choose.
OPS = {
    "Dense": {
        "arguments": {"units": 3},
        "input_shape": (8, 4),
        "geometry": {"plain": {}},
    },
    "EinsumDense": {
        "arguments": {
            "equation": "btd,dnh->btnh",
            "output_shape": (3, 2, 3),
            "bias_axes": "nh",
        },
        "input_shape": (4, 3, 4),
        "geometry": {
            "heads": {},
            "ellipsis": {
                "equation": "...d,dh->...h",
                "output_shape": (3,),
                "bias_axes": "h",
            },
            "rows": {
                "equation": "btd,hdt->bh",
                "output_shape": (3,),
                "bias_axes": "h",
            },
            # An axis that inputs, kernel and outputs share.
            "per step": {
                "equation": "btd,tdh->bht",
                "output_shape": (4, 3),
                "bias_axes": "ht",
            },
        },
    },
    "Conv1D": {
        "arguments": {"filters": 4, "kernel_size": 2},
        "input_shape": (4, 7, 2),
        "geometry": {
            "valid": {},
            "causal": {"padding": "causal", "dilation_rate": 2},
            "groups": {"groups": 2, "strides": 2, "padding": "same"},
        },
    },
    "Conv2D": {
        "arguments": {"filters": 4, "kernel_size": 2},
        "input_shape": (4, 5, 6, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": 2, "padding": "same"},
            "dilation": {"dilation_rate": (2, 1)},
            "groups": {"groups": 2, "kernel_size": (1, 3)},
        },
    },
    "Conv3D": {
        "arguments": {"filters": 2, "kernel_size": 2},
        "input_shape": (4, 3, 4, 3, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": (1, 2, 1), "padding": "same"},
            "groups": {"groups": 2, "kernel_size": (1, 2, 3)},
        },
    },
    "Conv2DTranspose": {
        "arguments": {"filters": 3, "kernel_size": 2},
        "input_shape": (4, 3, 4, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": 2, "padding": "same"},
            "output padding": {"kernel_size": 3, "strides": 2, "output_padding": 1},
        },
    },
    "DepthwiseConv2D": {
        "arguments": {"kernel_size": 2},
        "input_shape": (4, 5, 6, 2),
        "geometry": {
            "valid": {},
            "multiplier": {"depth_multiplier": 2, "padding": "same"},
            "strides": {"strides": 2, "kernel_size": (2, 3), "padding": "same"},
            "dilation": {"dilation_rate": 2, "depth_multiplier": 2},
        },
    },
}
FAMILIES = ("Variance", "GaussianDropout", "MeanField", "KTied")
CASES = {
    **OPS,
    **{f"{family}{op}": case for op, case in OPS.items() for family in FAMILIES},
}
LAYERS = harness.public_layers(tfvn.layers.StochasticLayer)
