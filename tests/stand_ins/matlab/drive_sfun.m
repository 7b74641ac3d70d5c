function drive_sfun(address, token)
  % Drive the S-function as Simulink does: setup, start, then output and update at each sample time.
  block = PlayedBlock({address, token, 3, 0.05});
  vehicled_sfun(block);
  call(block, 'Start');
  for k = 1:60
    call(block, 'Outputs');
    assert(numel(block.OutputPort(1).Data) == block.OutputPort(1).Dimensions);
    block.InputPort(1).Data = [0.8; 0.2];
    call(block, 'Update');
  end
  call(block, 'Outputs');
  call(block, 'Terminate');
  call(block, 'Terminate');
  printf('%.6f ', block.OutputPort(1).Data);
  printf('\n');
end
