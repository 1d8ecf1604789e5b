"""Generic layers with a random kernel, their presets, and layers with noise."""

from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.constructors import Preset
from tfvn.layers.convolutional.conv1d import (
    Conv1D,
    GaussianDropoutConv1D,
    KTiedConv1D,
    MeanFieldConv1D,
    VarianceConv1D,
)
from tfvn.layers.convolutional.conv2d import (
    Conv2D,
    GaussianDropoutConv2D,
    KTiedConv2D,
    MeanFieldConv2D,
    VarianceConv2D,
)
from tfvn.layers.convolutional.conv2d_transpose import (
    Conv2DTranspose,
    GaussianDropoutConv2DTranspose,
    KTiedConv2DTranspose,
    MeanFieldConv2DTranspose,
    VarianceConv2DTranspose,
)
from tfvn.layers.convolutional.conv3d import (
    Conv3D,
    GaussianDropoutConv3D,
    KTiedConv3D,
    MeanFieldConv3D,
    VarianceConv3D,
)
from tfvn.layers.convolutional.depthwise_conv2d import (
    DepthwiseConv2D,
    GaussianDropoutDepthwiseConv2D,
    KTiedDepthwiseConv2D,
    MeanFieldDepthwiseConv2D,
    VarianceDepthwiseConv2D,
)
from tfvn.layers.core.dense import (
    Dense,
    GaussianDropoutDense,
    KTiedDense,
    MeanFieldDense,
    VarianceDense,
)
from tfvn.layers.core.einsum_dense import (
    EinsumDense,
    GaussianDropoutEinsumDense,
    KTiedEinsumDense,
    MeanFieldEinsumDense,
    VarianceEinsumDense,
)
from tfvn.layers.feed_forward import StochasticLayer
from tfvn.layers.heads import LearnedScale, LikelihoodHead, NormalHead
from tfvn.layers.noise.multiplicative_noise import MultiplicativeNoise
from tfvn.layers.noise.noisy_conv2d import NoisyConv2D
from tfvn.layers.noise.noisy_dense import NoisyDense
from tfvn.layers.noise.noisy_lstm import NoisyLSTM, NoisyLSTMCell
from tfvn.layers.noise.noisy_residual import NoisyResidual
from tfvn.layers.recurrent.base_cell import StochasticRNNCell
from tfvn.layers.recurrent.base_layer import StochasticRNN
from tfvn.layers.recurrent.gru import (
    GRU,
    GaussianDropoutGRU,
    KTiedGRU,
    MeanFieldGRU,
    VarianceGRU,
)
from tfvn.layers.recurrent.gru_cell import (
    GaussianDropoutGRUCell,
    GRUCell,
    KTiedGRUCell,
    MeanFieldGRUCell,
    VarianceGRUCell,
)
from tfvn.layers.recurrent.lstm import (
    LSTM,
    GaussianDropoutLSTM,
    KTiedLSTM,
    MeanFieldLSTM,
    VarianceLSTM,
)
from tfvn.layers.recurrent.lstm_cell import (
    GaussianDropoutLSTMCell,
    KTiedLSTMCell,
    LSTMCell,
    MeanFieldLSTMCell,
    VarianceLSTMCell,
)

__all__ = [
    "GRU",
    "LSTM",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Dense",
    "DepthwiseConv2D",
    "EinsumDense",
    "GRUCell",
    "GaussianDropoutConv1D",
    "GaussianDropoutConv2D",
    "GaussianDropoutConv2DTranspose",
    "GaussianDropoutConv3D",
    "GaussianDropoutDense",
    "GaussianDropoutDepthwiseConv2D",
    "GaussianDropoutEinsumDense",
    "GaussianDropoutGRU",
    "GaussianDropoutGRUCell",
    "GaussianDropoutLSTM",
    "GaussianDropoutLSTMCell",
    "KTiedConv1D",
    "KTiedConv2D",
    "KTiedConv2DTranspose",
    "KTiedConv3D",
    "KTiedDense",
    "KTiedDepthwiseConv2D",
    "KTiedEinsumDense",
    "KTiedGRU",
    "KTiedGRUCell",
    "KTiedLSTM",
    "KTiedLSTMCell",
    "LSTMCell",
    "LearnedScale",
    "LikelihoodHead",
    "MeanFieldConv1D",
    "MeanFieldConv2D",
    "MeanFieldConv2DTranspose",
    "MeanFieldConv3D",
    "MeanFieldDense",
    "MeanFieldDepthwiseConv2D",
    "MeanFieldEinsumDense",
    "MeanFieldGRU",
    "MeanFieldGRUCell",
    "MeanFieldLSTM",
    "MeanFieldLSTMCell",
    "MultiplicativeNoise",
    "NoisyConv2D",
    "NoisyDense",
    "NoisyLSTM",
    "NoisyLSTMCell",
    "NoisyResidual",
    "NormalHead",
    "Preset",
    "RandomWeightsLayer",
    "StochasticLayer",
    "StochasticRNN",
    "StochasticRNNCell",
    "VarianceConv1D",
    "VarianceConv2D",
    "VarianceConv2DTranspose",
    "VarianceConv3D",
    "VarianceDense",
    "VarianceDepthwiseConv2D",
    "VarianceEinsumDense",
    "VarianceGRU",
    "VarianceGRUCell",
    "VarianceLSTM",
    "VarianceLSTMCell",
]
