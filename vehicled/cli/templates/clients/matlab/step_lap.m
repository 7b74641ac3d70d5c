function track = step_lap(address, token, distance_m, seed)
  % Step a simulation of vehicled serve simulation round its course, by setpoints of this program. Returns true x, y and
  % cross-track error, one row for each step:
  %   track = step_lap('tcp:127.0.0.1:7715', token); plot(track(:, 1), track(:, 2)), axis equal
  if nargin < 3
    distance_m = Inf;
  end
  if nargin < 4
    seed = 1;
  end
  simulation = vehicled.Simulation(address, token);
  path = simulation.path();
  seen = simulation.reset(seed);
  began_s = seen.time_s;
  goal_m = min(distance_m, path.length_m - 0.1);
  driven_m = 0;
  at_m = NaN;
  track = [];
  while driven_m < goal_m && (path.closed || ~(at_m > path.length_m - 0.3))
    if seen.over
      error('vehicled:over', 'the drive is over: %s', seen.why);
    end
    estimate = seen.estimate;
    place = vehicled.locate(path, estimate.x_m, estimate.y_m, at_m);
    moved_m = place.s_m - at_m;
    if path.closed
      moved_m = moved_m - path.length_m * round(moved_m / path.length_m);
    end
    if ~isnan(moved_m)
      driven_m = driven_m + moved_m;
    end
    at_m = place.s_m;
    off = vehicled.locate(path, seen.truth.x_m, seen.truth.y_m, at_m);
    track(end + 1, :) = [seen.truth.x_m, seen.truth.y_m, off.cross_track_m]; %#ok<AGROW>
    curvature = vehicled.pursue(path, estimate.x_m, estimate.y_m, estimate.yaw_rad, place.s_m, 0.8 + 0.4 * place.speed_mps);
    % Five periods with one setpoint; after 0.2 s it would be stale.
    seen = simulation.step(place.speed_mps, curvature, seen.time_s + 5 * simulation.period_s);
  end
  close(simulation);
  fprintf('%s: %.1f m in %.1f s of simulated time, %d steps, true cross-track error %.3f m RMS\n', path.name, driven_m, ...
          seen.time_s - began_s, size(track, 1), sqrt(mean(track(:, 3).^2)));
end
