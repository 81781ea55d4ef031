from calibrant.torch.calibration_metric import CalibrationMetric as CalibrationMetric

__all__: list[str]
