-- audit(said, before, after): something that changed nothing, such as a refusal
audit(ARGV[1], ARGV[2], ARGV[3])
return 'OK'
