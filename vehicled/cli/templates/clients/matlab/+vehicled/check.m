function check(name, value, largest)
  % Refuse a value that is not a finite number from -largest to largest.
  if ~(isnumeric(value) && isscalar(value) && isreal(value) && isfinite(value) && abs(value) <= largest)
    if isnumeric(value)
      shown = mat2str(value);
    else
      shown = class(value);
    end
    error('vehicled:argument', '%s = %s: give a finite number from %g to %g', name, shown, -largest, largest);
  end
end
