function curvature_per_m = pursue(path, x_m, y_m, yaw_rad, s_m, ahead_m)
  % Return the curvature of the circle through the rear axle and the point ahead_m further along the path (Coulter 1992).
  s = path.s_m(:);
  x = path.x_m(:);
  y = path.y_m(:);
  goal_s = s_m + ahead_m;
  if path.closed
    s = [s; path.length_m];
    x = [x; x(1)];
    y = [y; y(1)];
    goal_s = mod(goal_s, path.length_m);
  else
    goal_s = min(goal_s, s(end));
  end
  dx = interp1(s, x, goal_s) - x_m;
  dy = interp1(s, y, goal_s) - y_m;
  left = cos(yaw_rad) * dy - sin(yaw_rad) * dx;
  curvature_per_m = 2 * left / max(dx^2 + dy^2, 1e-6);
end
