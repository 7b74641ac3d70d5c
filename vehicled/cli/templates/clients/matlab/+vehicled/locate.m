function place = locate(path, x_m, y_m, near_s_m)
  % Return the nearest place of a path (s_m, cross_track_m positive left, speed_mps), at most a quarter of the path ahead of and a
  % metre behind near_s_m: a path may cross itself. With NaN it is sought everywhere.
  if isempty(x_m) || isempty(y_m) || ~isfinite(x_m + y_m)
    error('vehicled:argument', 'the place is unknown: x or y is not finite');
  end
  ahead = path.s_m(:) - near_s_m;
  if path.closed
    ahead = ahead - path.length_m * round(ahead / path.length_m);
  end
  away = hypot(path.x_m(:) - x_m, path.y_m(:) - y_m);
  away(ahead < -1 | ahead > max(0.25 * path.length_m, 2)) = Inf;
  [~, best] = min(away);
  c = cos(path.yaw_rad(best));
  s = sin(path.yaw_rad(best));
  dx = x_m - path.x_m(best);
  dy = y_m - path.y_m(best);
  % The tangent corrects for the distance of the points.
  place = struct('s_m', path.s_m(best) + c * dx + s * dy, 'cross_track_m', c * dy - s * dx, 'speed_mps', path.speed_mps(best));
end
