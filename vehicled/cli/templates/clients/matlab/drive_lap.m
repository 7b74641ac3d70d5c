function driven_m = drive_lap(address, token, distance_m)
  % Drive the course of a running daemon once, by setpoints of this program:
  %   drive_lap('tcp:127.0.0.1:7714', token)           or, only a part: drive_lap(address, token, 5)
  if nargin < 3
    distance_m = Inf;
  end
  client = vehicled.Client(address, token);
  path = client.path();
  estimates = vehicled.Subscription(address, token, 'state_estimate', 50);
  setpoints = vehicled.SetpointStream(address, token, 'drive_lap');
  % The first call of a function loads it, which may take longer than a setpoint lives.
  vehicled.locate(path, 0, 0, 0);
  vehicled.pursue(path, 0, 0, 0, 0, 1);
  start(setpoints);

  goal_m = min(distance_m, path.length_m - 0.1);
  driven_m = 0;
  at_m = NaN;
  squares = 0;
  samples = 0;
  while driven_m < goal_m && (path.closed || ~(at_m > path.length_m - 0.3))
    estimate = next(estimates, 1);
    place = vehicled.locate(path, estimate.x_m, estimate.y_m, at_m);
    moved_m = place.s_m - at_m;
    if path.closed
      moved_m = moved_m - path.length_m * round(moved_m / path.length_m);
    end
    if ~isnan(moved_m)
      driven_m = driven_m + moved_m;
    end
    at_m = place.s_m;
    curvature = vehicled.pursue(path, estimate.x_m, estimate.y_m, estimate.yaw_rad, place.s_m, 0.8 + 0.4 * place.speed_mps);
    send(setpoints, place.speed_mps, curvature);
    squares = squares + place.cross_track_m^2;
    samples = samples + 1;
  end
  stop(setpoints);
  close(setpoints);
  close(estimates);
  close(client);
  fprintf('%s: %.1f m, cross-track error %.3f m RMS\n', path.name, driven_m, sqrt(squares / max(samples, 1)));
end
