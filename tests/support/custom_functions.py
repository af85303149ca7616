"""Custom functions that the tests run on the tape, in compiled functions of NumPy code, and in PyTorch."""

from __future__ import annotations

from typing import Any


def functions(torch: Any, sin: Any, cos: Any) -> dict[str, Any]:
    """Losses of one array that use a Function each."""
    F = torch.autograd.Function

    class Square(F):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Exp(F):  # saves its result
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Inner(F):  # saves what is neither argument nor result: a constant to second derivatives
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y * 1.0

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Attribute(F):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.x**2 * g

    class SinCos(F):
        @staticmethod
        def forward(ctx, x):
            s, c = x.sin(), x.cos()
            ctx.save_for_backward(s, None, c)
            return s, c

        @staticmethod
        def backward(ctx, gs, gc):
            s, _, c = ctx.saved_tensors
            return gs * c - gc * s

    class Product(F):
        @staticmethod
        def forward(x, y, factor=2.0):
            return x * y * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.factor = inputs
            ctx.save_for_backward(x, y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * ctx.factor, g * x * ctx.factor, None

    class Wrong(F):  # not the derivative of its forward
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 10 * g * x

    class Straight(F):  # straight-through estimator
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    class Reverse(F):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return -ctx.strength * g, None

    class Same(F):  # gives its argument back
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return 3 * g

    class Masked(F):  # writes into the gradient
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.clone()
            g[x < 0] = 0
            return g

    class Nested(F):  # a Function in the backward of another
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * Wrong.apply(x)

    class Again(F):  # runs the forward again and differentiates it
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x * x).sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                z = x.detach().requires_grad_()
                y = (z * z).sin()
            return torch.autograd.grad(y, z, g)

    class Partly(F):  # one result without a derivative
        @staticmethod
        def forward(ctx, x):
            y, z = x * 2, x * 3
            ctx.mark_non_differentiable(z)
            ctx.save_for_backward(z)
            return y, z

        @staticmethod
        def backward(ctx, gy, gz):
            (z,) = ctx.saved_tensors
            return gy * 2 + gz + 0 * z

    class Sparse(F):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return 3 * b if a is None else a

    class Wide(F):  # a gradient that is broadcast
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (g * y).reshape(1, 3).expand(2, 3) / 2, g * x

    return {
        "Square": lambda x: Square.apply(Square.apply(x)).sum(),
        "Exp": lambda x: (Exp.apply(x) * x).sum(),
        "Inner": lambda x: (Inner.apply(x) * x).sum(),
        "Attribute": lambda x: Attribute.apply(x).sum(),
        "SinCos": lambda x: (SinCos.apply(x)[0] * SinCos.apply(x)[1]).sum(),
        "SinCos, one of them": lambda x: SinCos.apply(x)[1].sum(),
        "Product": lambda x: Product.apply(x, sin(x)).sum(),
        "Product, three": lambda x: Product.apply(cos(x), x, 3.0).sum(),
        "Wrong": lambda x: (Wrong.apply(x * 2) ** 2).sum(),
        "Straight": lambda x: (Straight.apply(x) * x * x).sum(),
        "Reverse": lambda x: (Reverse.apply(x * x, 0.5) * x).sum(),
        "Same": lambda x: (Same.apply(x) * x).sum(),
        "Masked": lambda x: (Masked.apply(x - 1.2) * x * x).sum(),
        "Nested": lambda x: Nested.apply(x).sum(),
        "Again": lambda x: Again.apply(x).sum(),
        "Partly": lambda x: (Partly.apply(x)[0] * Partly.apply(x)[1] * x).sum(),
        "Sparse": lambda x: (Sparse.apply(x)[1] * x).sum(),
        "Wide": lambda x: Wide.apply(x.sum(), x).sum(),
        "a scalar": lambda x: Square.apply(x.sum()) * x.sum(),
    }
