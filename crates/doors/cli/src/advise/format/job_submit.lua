-- Memory for jobs of classes whose need is known, written by `pinfold advise --format slurm`.
--
-- Put this file and pinfold-advice.tsv beside slurm.conf, with JobSubmitPlugins=lua. It reads flat files and never calls
-- out, because it runs under slurmctld's locks. Whatever goes wrong in it leaves a job as it is.

-- "fill": where a job asks for no memory. "lower": also where it asks for more than its class needs.
local MODE = "@MODE@"
local TABLE = "/etc/slurm/pinfold-advice.tsv"
-- A line for each user and class that failed since (user, tab, class); pinfold-epilog.sh writes it.
local FAILED = "/var/spool/pinfold/failed.tsv"
-- Requests are lowered only for jobs whose comment has this word; nil: for all.
local CONSENT = "pinfold"
-- Nothing is lowered below, in MiB.
local FLOOR_MIB = 64
-- A table is read again after so many seconds.
local FRESH_S = 60

local known, failed, read_at = {}, {}, nil

local function each_line(path, take)
    local file = io.open(path, "r")
    if not file then
        return
    end
    for line in file:lines() do
        if line:sub(1, 1) ~= "#" then
            take(line)
        end
    end
    file:close()
end

local function read()
    local now = os.time()
    if read_at and now >= read_at and now - read_at < FRESH_S then
        return
    end
    read_at, known, failed = now, {}, {}
    each_line(TABLE, function(line)
        local user, class, mib, keep = line:match("^([^\t]+)\t([^\t]+)\t(%d+)\t([01])\t")
        if user then
            known[user .. "\t" .. class] = { mib = tonumber(mib), keep = keep == "1" }
        end
    end)
    each_line(FAILED, function(line)
        failed[line] = true
    end)
end

-- What was said, or nil: nothing.
local function said(value)
    if value == nil or value == slurm.NO_VAL64 or value == slurm.NO_VAL or value < 0 then
        return nil
    end
    return value
end

local function consents(job_desc)
    return CONSENT == nil or (job_desc.comment or ""):find(CONSENT, 1, true) ~= nil
end

local function advise(job_desc)
    read()
    local key = (job_desc.user_name or "") .. "\t" .. (job_desc.name or "")
    local class = known[key]
    if not class then
        return
    end
    local asked, by_cpu = said(job_desc.min_mem_per_node), said(job_desc.min_mem_per_cpu)
    if asked == nil and by_cpu == nil then
        job_desc.min_mem_per_node = class.mib
        slurm.log_user("pinfold: --mem=%dM by what %s has needed so far", class.mib, key:match("\t(.*)"))
        return
    end
    -- --mem=0 asks for all of a node.
    local may_be_lowered = MODE == "lower" and not class.keep and not failed[key] and consents(job_desc)
    if not may_be_lowered or asked == nil or asked == 0 then
        return
    end
    local mib = math.max(class.mib, FLOOR_MIB)
    if mib < asked then
        job_desc.min_mem_per_node = mib
        slurm.log_user("pinfold: --mem=%dM in place of %dM by what %s has needed so far; back after a failure",
            mib, asked, key:match("\t(.*)"))
    end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local done, problem = pcall(advise, job_desc)
    if not done then
        slurm.log_info("pinfold: left as it is: %s", tostring(problem))
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
