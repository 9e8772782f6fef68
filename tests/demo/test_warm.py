from tolerant.demo.traffic import Shape
from tolerant.demo.warm import warm


def test_warming_up_runs_through():
    warm(Shape(ticks=30, hosts=1))
