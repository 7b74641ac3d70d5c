function ranges_m = scan_ranges(scan)
  % Return the ranges of a LaserScan as REP-117 has them: Inf for no return, -Inf for something nearer than the minimum, NaN for an
  % invalid ray. Without the text rays, of older servers, all that are unknown are NaN.
  ranges_m = scan.ranges_m(:);
  if iscell(ranges_m)
    % Octave reads an array with null as a cell array.
    ranges_m(cellfun(@isempty, ranges_m)) = {NaN};
    ranges_m = cell2mat(ranges_m);
  end
  if isempty(ranges_m) || ~isfield(scan, 'rays')
    return
  end
  if numel(scan.rays) ~= numel(ranges_m)
    error('vehicled:protocol', 'rays has another length than ranges_m');
  end
  ranges_m(scan.rays(:) == 'o') = Inf;
  ranges_m(scan.rays(:) == 'n') = -Inf;
end
